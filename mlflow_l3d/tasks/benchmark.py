"""The seven data sets of Pecher et al. (2024, section 4) by name."""

from __future__ import annotations

from typing import Final

from mlflow_l3d.tasks.benchmark_set import Benchmark

sst2: Final = Benchmark("sst2", ("negative", "positive"), "nyu-mll/glue/sst2", ("sentence",))
cola: Final = Benchmark(
    "cola", ("unacceptable", "acceptable"), "nyu-mll/glue/cola", ("sentence",), metric="matthews_corrcoef"
)
mrpc: Final = Benchmark(
    "mrpc",
    ("not_equivalent", "equivalent"),
    "nyu-mll/glue/mrpc",
    ("sentence1", "sentence2"),
    columns=("sentence1", "sentence2"),
)
ag_news: Final = Benchmark("ag_news", ("World", "Sports", "Business", "Sci/Tech"), "fancyzhx/ag_news", ("text",))
trec: Final = Benchmark(
    "trec", ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"), "SetFit/TREC-QC", ("text",), "label_coarse_original"
)
snips: Final = Benchmark(
    "snips",
    (
        "AddToPlaylist",
        "BookRestaurant",
        "GetWeather",
        "PlayMusic",
        "RateBook",
        "SearchCreativeWork",
        "SearchScreeningEvent",
    ),
    "benayas/snips",
    ("text",),
    "category",
)
dbpedia: Final = Benchmark(
    "dbpedia",
    (
        "Company",
        "EducationalInstitution",
        "Artist",
        "Athlete",
        "OfficeHolder",
        "MeanOfTransportation",
        "Building",
        "NaturalPlace",
        "Village",
        "Animal",
        "Plant",
        "Album",
        "Film",
        "WrittenWork",
    ),
    "fancyzhx/dbpedia_14",
    ("content",),
)

BENCHMARKS: Final = {each.name: each for each in (sst2, cola, mrpc, ag_news, trec, snips, dbpedia)}
"""Name -> data set."""
