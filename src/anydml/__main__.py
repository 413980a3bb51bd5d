"""`python -m anydml` is the command line, where no script is on the path."""

from anydml.cli.main import main

if __name__ == "__main__":
    main()
