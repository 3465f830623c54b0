#!/bin/bash
# EpilogSlurmctld for Slurm: collects evidence of a job that failed, while its nodes still remember.
#
#   slurm.conf:  EpilogSlurmctld=/etc/slurm/triage_epilog.sh
#
# Runs as SlurmUser on the controller, once a job, after the job. It returns at once; collecting goes on by itself with
# a deadline, so that nothing waits for it. The controller must reach the nodes (srun or ssh) as that user.
set -u

bundles=${TRIAGE_BUNDLES:-/var/spool/triage}   # where bundles go
triage=${TRIAGE_PROGRAM:-triage}               # the program, with its path if it is not in PATH
keep=${TRIAGE_KEEP_DAYS:-14}                   # days until bundles are removed
least=${TRIAGE_LEAST_NODES:-1}                 # jobs of fewer nodes are left alone

# SLURM_JOB_EXIT_CODE2 is EXIT:SIGNAL of the job; SLURM_JOB_EXIT_CODE the wait status in older versions.
case "${SLURM_JOB_EXIT_CODE2:-${SLURM_JOB_EXIT_CODE:-0}}" in
  0 | 0:0) exit 0 ;;
esac
[ "${SLURM_JOB_NUM_NODES:-1}" -ge "$least" ] || exit 0
command -v "$triage" >/dev/null 2>&1 || exit 0
mkdir -p "$bundles" && chmod 700 "$bundles" || exit 0

find "$bundles" -maxdepth 1 -name 'triage-job*' -mtime "+$keep" -exec rm -rf {} + 2>/dev/null
output="$bundles/triage-job$SLURM_JOB_ID-$(date -u +%Y%m%dT%H%M%SZ).tar.zst"
# setsid and a closed standard output: slurmctld waits for neither.
setsid "$triage" collect --job "$SLURM_JOB_ID" --timeout 120 -q -o "$output" \
  </dev/null >>"$bundles/collect.log" 2>&1 &
exit 0
