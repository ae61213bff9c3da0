"""The seven data sets of Pecher et al. (2024, section 4) by name."""

from __future__ import annotations

from typing import Final

from mlflow_l3d.tasks.sources.benchmark_set import Benchmark

sst2: Final = Benchmark("sst2", ("negative", "positive"), "nyu-mll/glue/sst2", hub_columns=("sentence",))
cola: Final = Benchmark(
    "cola", ("unacceptable", "acceptable"), "nyu-mll/glue/cola", hub_columns=("sentence",), metric="matthews_corrcoef"
)
mrpc: Final = Benchmark("mrpc", ("not_equivalent", "equivalent"), "nyu-mll/glue/mrpc", ("sentence1", "sentence2"))
ag_news: Final = Benchmark("ag_news", ("World", "Sports", "Business", "Sci/Tech"), "fancyzhx/ag_news")
trec: Final = Benchmark(
    "trec", ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM"), "SetFit/TREC-QC", hub_label="label_coarse_original"
)
_SNIPS: Final = "AddToPlaylist BookRestaurant GetWeather PlayMusic RateBook SearchCreativeWork SearchScreeningEvent"
snips: Final = Benchmark("snips", tuple(_SNIPS.split()), "benayas/snips", hub_label="category")
_DBPEDIA: Final = (
    "Company EducationalInstitution Artist Athlete OfficeHolder MeanOfTransportation Building NaturalPlace Village "
    "Animal Plant Album Film WrittenWork"
)
dbpedia: Final = Benchmark("dbpedia", tuple(_DBPEDIA.split()), "fancyzhx/dbpedia_14", hub_columns=("content",))

BENCHMARKS: Final = {each.name: each for each in (sst2, cola, mrpc, ag_news, trec, snips, dbpedia)}
"""Name -> data set."""
