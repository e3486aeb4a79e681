"""`python -m ps_dqn`: the command `ps-dqn`, where it is not installed or not the one on PATH."""

from ps_dqn.commands import main

if __name__ == "__main__":
    main()
