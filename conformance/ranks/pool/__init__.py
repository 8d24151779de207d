"""The harness's process: starting ranks, giving them jobs, watching and ending them."""
