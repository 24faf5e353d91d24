"""Train word models with Ray Train: the loop, the job around it, its folder and its page."""
