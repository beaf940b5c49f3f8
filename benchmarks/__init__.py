"""Speed and memory, always as ratios of one run on one machine: `make bench`.

source          the tables, and how they change
environments    a virtual environment for each contestant
contestants     what a contestant is; ours and peers say who they are, scripts/ is what some run
contest, watch  the rounds; one run with all its processes
check           every table against its source
results         medians and goals; report writes them, picture draws them
versions        two installations of ours against each other
parts/          what single parts cost
"""
