"""`python -m tidelog` is the `tidelog` command."""

from tidelog.cli import main

if __name__ == "__main__":
    main()
