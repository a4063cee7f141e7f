"""`python -m strandline`: the program, where its script is not on the path."""

from strandline.cli import main

if __name__ == "__main__":
    main()
