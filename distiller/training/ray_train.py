"""Ray Train as this project uses it: workers that train together, are restarted when one dies, and end by Ctrl-C.

Checkpoints are our own files: Ray does not replace its list of checkpoints atomically, so a job killed at the wrong
moment could not be resumed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from corpusgen.engine.ray_compat import leave_out_cleaner
from corpusgen.errors import ConfigError, CorpusgenError, StoreError, StoreUnavailableError
from corpusgen.io.lock import LockLostError
from distiller.training.interrupt import ended_by_ctrl_c

T = TypeVar("T")

_PATIENCE_SECONDS = 24 * 3600
"""How long workers wait for one that copies data to its node. Ray itself notices workers that die."""


def gpus() -> int:
    """Return the number of GPUs in the cluster now."""
    import ray

    return int(ray.cluster_resources().get("GPU", 0))


def fit(
    part: Callable[[dict[str, Any]], Any],
    config: dict[str, Any],
    workers: int,
    max_failures: int,
    use_gpu: bool | None = None,
) -> Any:
    """Run a function in all workers, by default one GPU each if there are any; return the result of the first."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    with tempfile.TemporaryDirectory() as nothing_is_kept:
        trainer = TorchTrainer(
            part,
            train_loop_config=config,
            torch_config=TorchConfig(timeout_s=_PATIENCE_SECONDS),
            scaling_config=ScalingConfig(num_workers=workers, use_gpu=gpus() > 0 if use_gpu is None else use_gpu),
            run_config=RunConfig(storage_path=nothing_is_kept, failure_config=FailureConfig(max_failures=max_failures)),
        )
        leave_out_cleaner(trainer)
        with ended_by_ctrl_c(trainer):
            try:
                return trainer.fit().return_value
            except Exception as error:
                failures = getattr(error, "worker_failures", {}).values()
                known = next((failure for failure in failures if isinstance(failure, CorpusgenError)), None)
                raise explained(known or CorpusgenError(f"training failed: {error}")) from error


def explained(problem: CorpusgenError) -> CorpusgenError:
    """Return the error that ended the workers, with advice to run the command again where that helps."""
    if isinstance(problem, ConfigError | LockLostError):
        return problem
    return CorpusgenError(f"{problem}\nrun the same command again to resume from the last checkpoint")


class EndedTogetherError(Exception):
    """The error that ends all workers, because the first one cannot continue."""

    def __init__(self, problem: CorpusgenError) -> None:
        super().__init__(str(problem))
        self.problem = problem


def by_first(rank: int, workers: int, output: str, act: Callable[[], T]) -> T | None:
    """Act in the first worker and return the result in all, so that all of them see the same checkpoint.

    An error of the first worker ends all of them. Otherwise the others would wait for it in the next step.
    """
    box: list[Any] = [None]
    if rank == 0:
        try:
            box = [act()]
        except StoreUnavailableError:
            raise  # Ray restarts the workers, and the store may be back by then
        except CorpusgenError as error:
            box = [error]
        except OSError as error:
            box = [StoreError(f"{output}: {error.strerror or error}")]
    if workers > 1:
        dist.broadcast_object_list(box, src=0)
    if isinstance(box[0], CorpusgenError):
        raise EndedTogetherError(box[0])
    found: T | None = box[0]
    return found
