"""`python -m anydml`: the command line, also where its script is not on the path."""

from anydml.cli.main import main

if __name__ == "__main__":
    main()
