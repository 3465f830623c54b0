"""Ways to the nodes of a job: what the site has already (srun, ssh, kubectl), never a service of our own."""
