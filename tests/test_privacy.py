"""No credential is shown, wherever it stands, and ordinary texts stay as they are."""

import json
import re

import pytest

from mlflow_l3d.errors import L3DError, ParameterError
from mlflow_l3d.paths import public_words
from mlflow_l3d.privacy import public_text, public_value

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA<<hunter2>>\nabc+/=\n-----END RSA PRIVATE KEY-----"
SECRETS = [
    "Authorization: ApiKey <<plantedtwo99>>",
    "train --pass <<plantedseven77>>",
    "aws_session_token: <<FwoGplanted1>>",
    "server said <<gsk_abcDEF123456789012>>",
    "<<npm_abcdefghij1234567890>> was refused",
    "Authorization: Bearer <<sk-S3CRETabcdef>>",
    "curl -H 'Authorization: Basic <<YWxpY2U6aHVudGVyMg>>=='",
    "401 for {'Authorization': 'Bearer <<hunter2hunter2>>'}",
    "authorization=Token <<swordfish>>",
    "X-Api-Key: <<hunter2>>",
    "Cookie: session=<<hunter2hunter2>>; path=/",
    "got bearer <<hunter2>> from the vault",
    "token=<<swordfish>>",
    "hf_token = '<<sword fish>>'",
    "no login with token: <<abc123def456>>",
    "password=<<hunter2>>,epochs=3",
    "password: <<swordfish>>",
    "DB_PWD=<<swordfish>>",
    "Server=db;Uid=me;Pwd=<<swordfish>>;",
    "api_key: <<swordfish>>",
    "aws_secret_access_key=<<wJalrXUtnFEMI/K7MDENG/bPxRfiCY>>",
    '{"api_key": "<<sword fish>>", "lr": 0.1}',
    '{"auth": {"password":"<<swordfish>>"}}',
    json.dumps(json.dumps({"client_secret": "<<swordfish>>"})),
    "redis://alice:<<hunter2>>@dbhost/0",
    "redis://:<<hunter2>>@dbhost",
    "s3://KEY:<<SECR/ET>>@bucket/folder",
    "postgresql+psycopg2://bob:<<s3cr@t>>@10.0.0.9:5432/trials",
    "cannot open 'https://u:<<swordfish>>@h/d'",
    "mongodb+srv://u:<<swordfish>>@cluster0.example.net/?w=1",
    "https://<<swordfish>>@github.com/me/repo.git",
    "git clone oauth2:<<swordfish>>@gitlab.com:me/repo",
    "git@github.com:<<ghp_abcdefgh12345678>>/repo",
    "https://h/d?api_key=<<swordfish>>&n=5",
    "https://h/d?se=2026&sig=<<sword%2Ffish>>&n=5",
    "Authorization: AWS4-HMAC-SHA256 Credential=swordfish/2026, Signature=<<0123456789abcdef>>",
    "https://b.s3.amazonaws.com/f?X-Amz-Signature=deadbeef&X-Amz-Credential=<<swordfish>>",
    "python t.py --api-key <<swordfish>> --lr 3",
    "python t.py --db.password <<swordfish>> --lr 3",
    "python t.py --password '<<sword fish>>' --lr 3",
    "python t.py --hf-token=<<swordfish>>",
    "Command '['t', '--api-key', '<<swordfish>>']' returned 1",
    "curl -u alice:<<swordfish>> https://h",
    "Incorrect API key provided: <<sk-proj-abcdefghijklmnopqrst>>",
    "key <<hf_abcDEF12345678>> is not valid",
    "The id <<AKIAIOSFODNN7EXAMPLE>> does not exist",
    "<<xoxb-123456-abcdef>> is revoked",
    "eyJhbGciOiJIUzI1NiJ9.<<eyJzdWIiOiIxIn0>>.c2lnbmF0dXJl has expired",
    f"cannot parse {PEM} as a key",
    "the vault said <<first-of-the-environment>>",
    "FileNotFoundError: '<</home/alice>>/private/x.csv'",
    r"FileNotFoundError: 'C:\Users\<<alice>>\x.csv'",
]
"""Each with its credential between << and >>."""
ORDINARY = [
    "token_count=5",
    "max_new_tokens=10",
    "tokens: 512",
    "sk-learn",
    "sk-learn-1.5.2",
    "sk-image",
    "tokenizer=bert",
    "eos_token=</s>",
    "pad_token: '[PAD]'",
    "--pad-token x",
    "--max-tokens 10",
    "--tokenizer name",
    "token=5",
    "TOKENIZERS_PARALLELISM=false",
    "unexpected token: end of file",
    "token: 17",
    "password=None",
    "--token {seed}",
    "the secret of good prompts",
    "keyboard=qwerty",
    "key=value",
    "KeyError: 'label'",
    "primary_key",
    "pwd",
    "hits@10: 0.5",
    "recall:precision@k: 0.5",
    "me@example.org",
    "git@github.com:org/repo.git",
    "a:b@c",
    "https://h/d?page=2&n=5",
    "http://127.0.0.1:5000/#/experiments/1@x",
    "https://pypi.org/p@1.0",
    "hf://datasets/a",
    "hf_hub_download",
    "hf_transformers",
    "ghp",
    "data/train.csv",
    "predictions.csv",
    "s3://bucket/key.json",
    "https://h/home/page",
    "/usr/bin/python",
    "bearer of news",
    "python -p 3 train.py",
    "Authorization: failed",
    "the command ended with exit status 1: ValueError: could not convert string to float: '0-'",
    "AKIA",
    "password authentication failed for user",
    "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.",
]


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    monkeypatch.setenv("MY_VAULT_PASSWORD", "first-of-the-environment")
    monkeypatch.setenv("SORT_KEY", "12345")
    monkeypatch.setenv("OTHER_TOKEN", "short")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "parallel")


@pytest.mark.parametrize("marked", SECRETS)
def test_a_credential_is_hidden(marked):
    before, secret, after = re.split("<<|>>", marked)
    text = before + secret + after
    shown = public_text(text)
    assert secret not in shown
    assert public_text(shown) == shown
    assert secret not in str(ParameterError("command", text, "is wrong"))


@pytest.mark.parametrize("text", [*ORDINARY, "12345 is short, and parallel"])
def test_an_ordinary_text_stays(text):
    assert public_text(text) == text
    assert str(L3DError(text)) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("redis://alice:hunter2@dbhost/0", "redis://***@dbhost/0"),
        ("--store https://u:p@h/d --data=s3://K:S/T@b", "--store https://***@h/d --data=s3://***@b"),
        ("a --password 'x y' --lr 3", "a --password '***' --lr 3"),
        ("token=abc,epochs=3", "token=***,epochs=3"),
        ('{"api_key": "x", "lr": 0.1}', '{"api_key": "***", "lr": 0.1}'),
        ("https://h/d?api_key=x&n=5", "https://h/d?api_key=***&n=5"),
        ("--db sqlite:////srv/mine/m.db file:///srv/x/y http://h/a/b", "--db sqlite:///m.db file://y http://h/a/b"),
    ],
)
def test_the_rest_stays_readable(text, shown):
    assert public_words(text) == shown


def test_a_character_that_no_server_stores_is_replaced():
    assert public_text("exit 3: \0 and \udc80") == "exit 3: \ufffd and \ufffd"


def test_a_parameter_of_a_secret_name_is_hidden():
    assert public_value("api_key", "swordfish") == "***"
    assert public_value("epochs", "3") == "3"


@pytest.mark.parametrize(("secret", "shown"), [("sixsix", "***"), ("fives", "fives")])
def test_a_value_that_is_a_credential_of_the_environment_is_hidden_from_six_letters_on(monkeypatch, secret, shown):
    monkeypatch.setenv("OTHER_TOKEN", secret)
    assert public_value("user", secret) == public_text(secret) == shown


def test_the_folder_before_the_last_change_of_folders_is_no_credential(monkeypatch):
    monkeypatch.setenv("OLDPWD", "/data/project")
    assert public_text("/data/project/train.py is missing") == "/data/project/train.py is missing"
