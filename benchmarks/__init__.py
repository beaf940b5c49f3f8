"""Speed and memory, always as ratios of one run on one machine: `make bench`."""
