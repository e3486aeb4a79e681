"""The tasks of a run: started, watched and started again."""
