"""A node's wall clock, that a campaign can set while the node runs. Python imports this before all
else."""

import mmap
import os
import struct
import time

if place := os.environ.get("CAMPAIGN_CLOCK", ""):
    with open(place, "rb") as file:
        _shift = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    _real = time.time

    def _stepped() -> float:
        return _real() + float(struct.unpack("d", _shift[:8])[0])

    time.time = _stepped
