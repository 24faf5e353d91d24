"""All checks, including the thorough ones: they load models, try out the store, and examine the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from corpusgen.config.build import BuildConfig
from corpusgen.corpus.build import check_workers, content_of, passes_of, stages_of
from corpusgen.corpus.recipes import recipe_of
from corpusgen.engine.cluster import is_this_machine, may_grow, ray_cluster
from corpusgen.errors import ConfigError
from corpusgen.ops.doctor import cluster_room as room
from corpusgen.ops.doctor import models
from corpusgen.ops.doctor import source_and_store as places
from corpusgen.ops.doctor.findings import Line, reported
from corpusgen.ops.doctor.machine import Machine, look_around, machine_lines
from corpusgen.ops.doctor.packages import installed, packages
from corpusgen.store import Store
from corpusgen.store.products import WORDS


def examine(config: BuildConfig | None, address: str | None) -> Iterator[Line]:
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
        yield Line("red", "settings", str(error))
        return
    yield Line("green", "settings", f"complete for {', '.join(names)}")
    yield from reported(
        "build", _build(config, address, machine, recipe_of(config).product is WORDS and WORDS.pass_name in names)
    )


def _build(config: BuildConfig, address: str | None, machine: Machine, triples: bool) -> Iterator[Line]:
    here = is_this_machine(address)
    store = Store.at(config.store)
    stages = stages_of(config, store)
    for what, check in (
        ("source.paths", places.sources(config)),
        ("source.paths", places.first_bytes(config)),
        ("store", places.store_place(config)),
        ("room for the store", places.disk(config)),
        ("packages", packages(config, stages, here)),
    ):
        yield from reported(what, check)
    missing = list(models.present(stages, here))
    yield from missing
    requests = [(stage, config.run.resources_of(stage)) for stage in stages]
    if not missing:
        content = content_of(config, store)
        yield from models.hashes(content["models"])
        yield from reported("corpus", places.store_content(config, content))
        yield from models.loads(stages, here)
        if triples:
            yield from reported("models", models.match(config))
    if here:
        yield from _rooms(config, requests, [room.this_node(machine)], growing=False)
    else:
        yield from reported("cluster", _cluster(address, machine, config, requests))


def _cluster(
    address: str | None, machine: Machine, config: BuildConfig | None = None, requests: room.Requests = ()
) -> Iterator[Line]:
    if is_this_machine(address):
        yield Line("grey", "cluster", "none is named (--address, RAY_ADDRESS): builds start Ray on this machine")
        return
    with ray_cluster(address):
        nodes = room.cluster_nodes(models.model_paths([stage for stage, _ in requests]))
        yield from room.cluster_lines(nodes, machine)
        if config:
            yield from _rooms(config, requests, nodes, may_grow())
            yield from room.models_on_nodes(requests, nodes)


def _rooms(config: BuildConfig, requests: room.Requests, nodes: Sequence[room.Node], growing: bool) -> Iterator[Line]:
    yield from room.schedulable(requests, nodes, growing)
    yield from room.devices(requests)
    yield from room.idle_gpus(config, requests, nodes)
    yield from reported("GPU memory", room.memory_of_gpus(config, requests, nodes))
