# SPDX-License-Identifier: Apache-2.0
"""The fixtures are in a module of their own, for tests/server to have them, too."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from fixtures import *  # noqa: E402,F401,F403  (needs the path above)
