#!/usr/bin/env bash
# Runs each example of the recorder three ways and checks what it left: by hand under plain Python, by hand under
# `triage record`, and untouched under `triage record`.
#
#   bash examples/run_all.sh OUT
#
# PYTHON: a Python with torch (default python3); an example whose library it lacks is skipped and named. TRIAGE: the
# command `triage`, which may live elsewhere (default: this checkout, run by PYTHON; recording needs nothing but click).
set -u
out=${1:?usage: run_all.sh OUT, a folder to write into}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
triage=${TRIAGE:-$python -m triage}
export PYTHONPATH="$(dirname "$here")${PYTHONPATH:+:$PYTHONPATH}" CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES:-0}"
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 1
checked=0 failed=0 skipped=0

check() { # FOLDER STATUS PHASE...: the job ended with STATUS and should have left these
  local folder=$1 status=$2
  checked=$((checked + 1))
  shift 2
  if [ "$status" -ne 0 ]; then
    echo "$folder: ended with exit code $status" && tail -n 5 "$folder.log"
  fi
  "$python" "$here/check_recording.py" "$folder" 40 "$@" && [ "$status" -eq 0 ] || failed=$((failed + 1))
}

example() { # NAME LIBRARY PHASE...: the phases that its own calls record
  local name=$1 library=$2
  shift 2
  if ! "$python" -c "import $library" 2>/dev/null; then
    echo "$name: skipped, $python has no $library"
    skipped=$((skipped + 1))
    return
  fi
  rm -rf "$out/$name".*
  TRIAGE_RECORD_DIR=$out/$name.plain "$python" "$here/$name.py" >"$out/$name.plain.log" 2>&1
  check "$out/$name.plain" $? "$@"
  $triage record --on-failure none -o "$out/$name.record" -- "$python" "$here/$name.py" >"$out/$name.record.log" 2>&1
  check "$out/$name.record" $? "$@"
  $triage record --on-failure none -o "$out/$name.untouched" -- "$python" "$here/$name.py" --untouched \
    >"$out/$name.untouched.log" 2>&1
  check "$out/$name.untouched" $? data fwd bwd opt
}

example record_loop torch data fwd bwd opt
example record_lightning lightning data fwd bwd opt
example record_transformers transformers,accelerate data opt # forward and backward pass have no callback
echo "$checked recordings checked, $failed wrong; $skipped examples skipped"
[ "$failed" -eq 0 ] && [ "$checked" -gt 0 ]
