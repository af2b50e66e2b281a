"""``python -m kerncast``."""

from kerncast.cli import main

if __name__ == "__main__":
    main()
