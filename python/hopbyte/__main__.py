"""``python -m hopbyte``."""

import sys

from hopbyte._cli import main

sys.exit(main())
