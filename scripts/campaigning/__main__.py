"""`scripts/campaign`."""

import sys

from campaigning.play import main

if __name__ == "__main__":
    sys.exit(main())
