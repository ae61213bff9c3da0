#!/usr/bin/env bash
# What only a real GPU can tell: the tests of tests/gpu, then benchmarks, in the order of their value. Every step leaves
# its output in the folder of results and is not repeated: an interrupted run goes on where it stopped.
#
#     benchmarks/gpu.sh RESULTS [STEP ...]      L3D_DATA names the folder with mrpc, sst2 and dbpedia
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
results=$(mkdir -p "$1" && cd "$1" && pwd) && shift || exit 2
wanted=" $* "
python=${PYTHON:-python}
export PYTHONUNBUFFERED=1 TQDM_DISABLE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 MLFLOW_DISABLE_TELEMETRY=true
"$python" -c "import mlflow_l3d, torch" 2>/dev/null || "$python" -m pip install -c constraints.txt -e ".[dev]"

# step NAME SECONDS COMMAND...: at most so long, and only once.
step() {
    local name=$1 seconds=$2 began=$SECONDS status
    shift 2
    [[ $wanted == "  " || $wanted == *" $name "* ]] || return 0
    [[ -f $results/$name.done ]] && return 0
    printf '\n== %s (%d s)\n' "$name" "$SECONDS"
    timeout -k 5 "$seconds" "$@" 2>&1 | tee "$results/$name.txt"
    status=${PIPESTATUS[0]}
    printf '%-16s exit status %3d, %4d s\n' "$name" "$status" "$((SECONDS - began))" | tee -a "$results/table.txt"
    ((status)) || touch "$results/$name.done"
}

step versions 60 "$python" - <<'P'
import platform, torch, transformers, mlflow
print(platform.python_version(), torch.__version__, transformers.__version__, mlflow.__version__)
print(torch.cuda.get_device_name(), torch.backends.cudnn.version(), torch.cuda.mem_get_info()) if torch.cuda.is_available() else print("no GPU")
P
[[ -f $results/tests.done ]] || rm -f "$results/notes.txt"
L3D_TEST_GPU_NOTES=$results/notes.txt step tests 150 "$python" -m pytest tests/gpu -q -W default --tb=short -p no:cacheprovider -n 8 --timeout 100
step ray 60 "$python" -m pytest tests/gpu -m cluster -q -W default --tb=short -p no:cacheprovider --timeout 55
step finetuning 100 "$python" benchmarks/finetuning_large.py --device cuda --sides trainer ours ours-beside --beside 2 4
step profile 70 "$python" benchmarks/finetuning_large.py --device cuda --sides profile --profile-size base --profile-dtype bfloat16
step batch-64 60 "$python" benchmarks/finetuning_large.py --device cuda --sides trainer ours --batch 64 --steps 20
step trainers 60 "$python" benchmarks/finetuning_large.py --device cuda --sides trainers-beside --beside 8
step icl-7b 90 "$python" benchmarks/icl_engine.py --device cuda --size 7b
step icl-135m 70 "$python" benchmarks/icl_engine.py --device cuda --size 135m
step replicate 60 "$python" benchmarks/gpu_replicate.py
step harness 60 "$python" benchmarks/icl_harness.py --device cuda --size 135m --tasks sst2
step lora 70 "$python" benchmarks/finetuning_large.py --device cuda --trainable lora
step heads 40 "$python" benchmarks/heads.py --device cuda
step meta-learning 45 "$python" benchmarks/meta_learning.py --device cuda
step 4bit 40 "$python" benchmarks/icl_engine.py --device cuda --size 135m --parts 4bit
step attention 40 "$python" benchmarks/icl_engine.py --device cuda --size 7b --parts attention
step harness-7b 60 "$python" benchmarks/icl_harness.py --device cuda --size 7b
# One line a test, so that a run which is cut off has told what failed.
step quick-tests 240 bash -o pipefail -c '"$0" -m pytest -m "not slow" -v --tb=line -p no:cacheprovider -p no:benchmark -n auto | grep --line-buffered -v PASSED' "$python"
[[ -f $results/notes.txt ]] && cat "$results/notes.txt"
printf '\n' && cat "$results/table.txt"
