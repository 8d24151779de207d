"""DeepSpeed's compiled ops on this host: which are there, without building any."""
