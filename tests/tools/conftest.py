# SPDX-License-Identifier: Apache-2.0
"""Tests of tools/: nothing of Cove is started."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/suite.d"))
