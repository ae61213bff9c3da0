#!/usr/bin/env bash
# Measures a change, and says on its pull request what came out: one comment, created once, then updated.
#
#   pull_request.sh run [OPTIONS] -- COMMAND ...      the three below, one after the other
#   pull_request.sh measure [OPTIONS] -- COMMAND ...  run the command; its result goes to the folder
#   pull_request.sh comment [OPTIONS]                 write the comment; without the right to, the summary of the job
#   pull_request.sh status [OPTIONS]                  exit as the command did
#
#   --folder FOLDER         where comment.md, badge.svg and the report go (l3d-report)
#   --name NAME             which comment of the pull request it is, if there are several (mlflow-l3d)
#   --undecided fail|pass   whether the verdict `undecided` fails (fail); cases of pytest have --l3d-undecided
#   --markdown FILE         a file that the command writes, to be the comment: that of pytest --l3d-markdown FILE
#   --pull-request NUMBER   by default that of $GITHUB_REF
#   --link ADDRESS          where the report can be read
#
# The token is read from $L3D_TOKEN, which the command does not see, or else $GITHUB_TOKEN. It is never an argument of
# a process. What the command prints is kept out of the comment: only GitHub's logs hide secrets.
set +x -euo pipefail

fail() {
    printf 'pull_request.sh: %s\n' "$*" >&2
    exit 3
}

step=${1:-} && shift || true
[[ $step =~ ^(run|measure|comment|status)$ ]] || fail "step=$step: must be run, measure, comment or status"
folder=l3d-report name=mlflow-l3d undecided=fail markdown='' pull_request='' link=''
while (($#)) && [[ $1 == --* ]]; do
    [[ $1 == -- ]] && shift && break
    (($# > 1)) || fail "$1: needs a value"
    case $1 in
        --folder) folder=$2 ;;
        --name) name=$2 ;;
        --undecided) undecided=$2 ;;
        --markdown) markdown=$2 ;;
        --pull-request) pull_request=$2 ;;
        --link) link=$2 ;;
        *) fail "option=$1: is unknown; the head of this script has all of them" ;;
    esac
    shift 2
done
[[ $undecided =~ ^(fail|pass)$ ]] || fail "undecided=$undecided: must be fail or pass"
[[ $name =~ ^[A-Za-z0-9\ ._-]+$ && $name != *--* ]] || fail "name=$name: must be letters, digits, blanks, . _ and -"
[[ $pull_request =~ ^[0-9]*$ ]] || fail "pull-request=$pull_request: must be a number"
[[ -n $folder ]] || fail "folder=: must be the name of a folder"
[[ $step =~ ^(run|measure)$ ]] && (($# == 0)) && fail "$step: needs a command behind --"

token=${L3D_TOKEN:-${GITHUB_TOKEN:-}}
unset L3D_TOKEN
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
marker="<!-- mlflow-l3d: $name -->"

run_python() { "$(command -v python3 || echo python)" -c "$@"; }

# Runs the command, and writes `status`, `verdict`, `comment.md`, `badge.svg` and the report to the folder.
measure() {
    local answer code=0 run last session='' verdict=''
    mkdir -p "$folder"
    rm -f "$folder"/{status,verdict,comment.md,badge.svg}
    touch "$scratch/begun"
    { env "$@" 2>&1 >&3 3>&- | tee "$scratch/errors" >&2; exit "${PIPESTATUS[0]}"; } 3>&1 | tee "$scratch/output" || code=$?
    run=$(cat "$scratch/output" "$scratch/errors" |
        grep -aoE '(This run: [^[:space:]]*/runs/|MLflow run )[0-9a-f]{32}' | tail -n 1 | tail -c 33) || run=''
    last=$(tail -n 1 "$scratch/output")
    # A referee's answer names its session, which has numbers and a page, whatever else the command ran before.
    [[ $last =~ \"referee\":\ \"([0-9a-f]{32})\" ]] && session=${BASH_REMATCH[1]}
    if [[ -n $markdown && -f $markdown && ! $markdown -ot $scratch/begun ]]; then
        cp "$markdown" "$folder/comment.md"
    elif [[ -z $session && -n $run ]] && ((code < 3)) && verdict=$(
        mlflow-l3d view "$run" --comment "$folder/comment.md" --badge "$folder/badge.svg" --bundle "$folder"
    ); then
        verdict=${verdict%%:*}
    elif verdict=$(run_python '
import json, sys
told = json.loads(sys.argv[1])
verdict = told.get("verdict", told.get("decision"))
if verdict not in ("keep", "reject", "better", "worse", "equivalent", "undecided"):
    sys.exit(1)
text = json.dumps(told, indent=1).replace("`", "")
open(sys.argv[2], "w", encoding="utf-8").write(f"### {verdict}\n\n```json\n{text}\n```\n")
print(verdict)' "$last" "$folder/comment.md" 2> "$scratch/refused"); then
        if [[ -n $session ]] && mlflow-l3d view "$session" --comment "$scratch/session.md" --badge "$folder/badge.svg" \
            --bundle "$folder" >&2
        then  # the numbers of the session, then the answer about this candidate
            answer=$(tail -n +3 "$folder/comment.md")
            printf '### %s\n\n%s\n\n%s\n' "$verdict" "$(< "$scratch/session.md")" "$answer" > "$folder/comment.md"
        fi
    else
        verdict=''
        # Of all that is printed, counts of pytest are no secret.
        last=$(tail -n 20 "$scratch/output" | grep -aoE \
            '([0-9]+ (passed|failed|skipped|errors?|x(pass|fail)ed|deselected|warnings?),? )+in [0-9.]+s' | tail -n 1) ||
            last='The command wrote no result'
        printf '### %s\n\nThe log of the job says more; so does a file of pytest --l3d-markdown, named by --markdown.\n' \
            "$last" > "$folder/comment.md"
    fi
    # An interrupted pytest ends with 2 as well, whatever an earlier command found.
    if tail -n 20 "$scratch/output" | grep -aE '^!!!+ .*(Interrupt|Exit)' > "$scratch/interrupted"; then verdict=''; fi
    printf '%s\n' "$code" > "$folder/status"
    printf '%s\n' "$verdict" > "$folder/verdict"
    printf '%s\n' "status=$code" "verdict=$verdict" >> "${GITHUB_OUTPUT:-/dev/null}"
}

# Asks GitHub: METHOD PATH [FILE WITH THE BODY]; prints the HTTP status, and leaves the answer in $scratch/answer.
request() {
    printf 'Authorization: Bearer %s\n' "$token" | curl --silent --max-time 60 --request "$1" --header @- \
        --header 'Accept: application/vnd.github+json' --header 'X-GitHub-Api-Version: 2022-11-28' \
        --header 'Content-Type: application/json' ${3:+--data-binary} ${3:+"@$3"} \
        --output "$scratch/answer" --write-out '%{http_code}' \
        "${GITHUB_API_URL:-https://api.github.com}/repos/$GITHUB_REPOSITORY/issues/$2" || true
}

# Prints how to write our comment: METHOD PATH; fails with the HTTP status if the comments cannot be read.
find_comment() {
    local page found http
    for ((page = 1; ; page++)); do
        http=$(request GET "$pull_request/comments?per_page=100&page=$page")
        [[ $http == 200 ]] || { printf '%s' "$http"; return 1; }
        # Only those who may write here can have written it: nobody else plants a comment for us to update.
        found=$(run_python '
import json, sys
comments = json.load(open(sys.argv[1], encoding="utf-8"))
for comment in comments:
    is_bot = (comment["user"] or {}).get("type") == "Bot"  # the user of a deleted account is null
    trusted = is_bot or comment["author_association"] in ("OWNER", "MEMBER", "COLLABORATOR")
    if trusted and (comment["body"] or "").startswith(sys.argv[2]):
        sys.exit(print("PATCH comments/{}".format(comment["id"])))
print("POST" if len(comments) < 100 else "more")' "$scratch/answer" "$marker") || found=''
        [[ -n $found ]] || { printf '%s, unreadable' "$http"; return 1; }
        [[ $found == more ]] || break
    done
    [[ $found == POST ]] && found="POST $pull_request/comments"
    printf '%s' "$found"
}

comment() {
    local place http
    [[ -f $folder/comment.md ]] || fail "folder=$folder: holds no comment.md; the step measure writes it"
    [[ -z $pull_request && ${GITHUB_REF:-} =~ ^refs/pull/([0-9]+)/ ]] && pull_request=${BASH_REMATCH[1]}
    # GitHub takes 65,536 characters.
    run_python '
import sys
text = open(sys.argv[1], encoding="utf-8", errors="replace").read()
if len(text) > 60000:
    text = (text[:60000].rpartition("\n")[0] or text[:60000]) + "\n\nThe rest is in the report.\n"
text = f"{sys.argv[3]}\n{text}\nExit status {open(sys.argv[2]).read().strip()}.\n"
open(sys.argv[4], "w", encoding="utf-8").write(text)' "$folder"/{comment.md,status} "$marker" "$scratch/comment.md"
    [[ -n $link ]] && printf '\n[The report](%s)\n' "$link" >> "$scratch/comment.md"
    [[ -n $pull_request ]] || { summarise 'This run has no pull request'; return; }
    [[ -n $token && -n ${GITHUB_REPOSITORY:-} ]] || { summarise 'L3D_TOKEN or GITHUB_REPOSITORY is not set'; return; }
    place=$(find_comment) || { summarise "GitHub does not show the comments (HTTP $place)"; return; }
    run_python '
import json, sys
json.dump({"body": open(sys.argv[1], encoding="utf-8").read()}, open(sys.argv[2], "w", encoding="utf-8"))
' "$scratch/comment.md" "$scratch/body.json"
    http=$(request "${place% *}" "${place#* }" "$scratch/body.json")
    [[ $http =~ ^20[01]$ ]] || summarise "GitHub took no comment (HTTP $http): a fork may not write one"
}

# Puts the comment into the summary of the job, or prints it, with one line that says why.
summarise() {
    printf '%s: the comment is in the summary of the job.\n' "$1" >&2
    { printf '%s, so the result is here.\n\n' "$1"; cat "$scratch/comment.md"; } >> "${GITHUB_STEP_SUMMARY:-/dev/stdout}"
}

status() {
    local code verdict
    [[ -f $folder/status ]] || fail "folder=$folder: holds no status; the step measure writes it"
    code=$(< "$folder/status") verdict=$(< "$folder/verdict")
    # 2 alone is not `undecided`: it is also the status of a wrong option, and of an interrupted pytest.
    [[ $code == 2 && $verdict == undecided && $undecided == pass ]] && exit 0
    exit "$code"
}

case $step in
    run)
        measure "$@"
        comment
        status
        ;;
    *) "$step" "$@" ;;
esac
