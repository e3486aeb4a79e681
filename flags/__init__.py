"""absl flags: one for each option of `ps_dqn.config`, and those that say where tasks run.

Only entry points use this package; everything else takes its values as arguments.
"""
