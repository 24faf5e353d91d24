"""All checks, including the thorough ones: they load models, try out the store, and examine the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import check_workers, content_of, passes_of, stages_of
from corpusgen.corpus.recipes import recipe_of
from corpusgen.engine.cluster import is_this_machine, may_grow, ray_cluster
from corpusgen.errors import ConfigError
from corpusgen.ops.doctor import capacity, models, source_and_store
from corpusgen.ops.doctor.findings import Finding, reported
from corpusgen.ops.doctor.machine import Machine, look_around, machine_lines
from corpusgen.ops.doctor.packages import installed, packages
from corpusgen.store import Store
from corpusgen.store.products import WORDS


def examine(config: BuildConfig | None, address: str | None) -> Iterator[Finding]:
    """Run all checks: of this machine, of the settings if given, and of the cluster if one is named."""
    machine = look_around()
    yield from machine_lines(machine)
    yield from installed()
    if config is None:
        yield from reported("cluster", _cluster(address, machine))
        return
    try:
        check_workers(config)
        names = passes_of(config)
    except ConfigError as error:
        yield Finding("red", "settings", str(error))
        return
    yield Finding("green", "settings", f"complete for {', '.join(names)}")
    triples = WORDS in recipe_of(config).products and WORDS.pass_name in names
    yield from reported("build", _build(config, address, machine, triples))


def _build(config: BuildConfig, address: str | None, machine: Machine, triples: bool) -> Iterator[Finding]:
    here = is_this_machine(address)
    store = Store.at(config.store)
    stages = stages_of(config, store)
    for what, check in (
        ("source.paths", source_and_store.sources(config)),
        ("source.paths", source_and_store.first_bytes(config)),
        ("store", source_and_store.store_location(config)),
        ("room for the store", source_and_store.disk(config)),
        ("packages", packages(config, stages, here)),
    ):
        yield from reported(what, check)
    missing = list(models.present(stages, here))
    yield from missing
    requests = [(stage, config.run.resources_of(stage)) for stage in stages]
    if not missing:
        content = content_of(config, store)
        yield from models.hashes(content["models"])
        if not content["models"]:
            yield Finding("green", "models", "none: the stages of this build only need models in this package")
        yield from reported("corpus", source_and_store.store_content(config, content))
        yield from models.loads(stages, here)
        if triples:
            yield from reported("models", models.match(config))
    if here:
        yield from _capacity(config, requests, [capacity.this_node(machine)], growing=False)
    else:
        yield from reported("cluster", _cluster(address, machine, config, requests))


def _cluster(
    address: str | None, machine: Machine, config: BuildConfig | None = None, requests: capacity.Requests = ()
) -> Iterator[Finding]:
    if is_this_machine(address):
        yield Finding("grey", "cluster", "no address given (--address, RAY_ADDRESS): builds start Ray on this machine")
        return
    with ray_cluster(address):
        nodes = capacity.cluster_nodes(models.model_paths([stage for stage, _ in requests]))
        yield from capacity.cluster_lines(nodes, machine)
        if config:
            yield from _capacity(config, requests, nodes, may_grow())
            yield from capacity.models_on_nodes(requests, nodes)


def _capacity(
    config: BuildConfig, requests: capacity.Requests, nodes: Sequence[capacity.Node], growing: bool
) -> Iterator[Finding]:
    yield from capacity.schedulable(requests, nodes, growing)
    yield from capacity.devices(requests)
    yield from capacity.idle_gpus(config, requests, nodes)
    yield from reported("GPU memory", capacity.memory_of_gpus(config, requests, nodes))
