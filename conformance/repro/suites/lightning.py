"""The cells of suite lightning in short."""

from __future__ import annotations

from conformance.model.setting import Axes
from conformance.repro.forms import Call, Repro, Short


def unusable_mpi4py(axes: Axes) -> Repro | None:
    """A Trainer where mpi4py finds no library."""
    functions = """
        class Package:  # an mpi4py without an MPI library
            def __getattr__(self, name):
                raise RuntimeError("cannot load MPI library")
    """
    body = """
        sys.modules["mpi4py"] = Package()
        try:
            pytorch_lightning.Trainer(accelerator="cpu", devices=2, num_nodes=1, logger=False)
        except Exception as error:
            raise AssertionError(f"Trainer raised {type(error).__name__}: {error}, though no mpiexec started it")
    """
    return Call(body=body, ranks=int(axes["world"]), functions=functions)


def precision(axes: Axes) -> Repro | None:
    """What precision="bf16-mixed" does to a batch."""
    if axes["by"] != "trainer":
        return None
    body = """
        batch = {"inputs": torch.ones(2, 4), "targets": torch.ones(2)}
        precision = pytorch_lightning.plugins.precision.DeepSpeedPrecision("bf16-mixed")
        found = precision.convert_input(batch)["targets"].dtype
        assert found == torch.float32, f"training_step was given targets in ['{found}'], they are float32"
    """
    return Call(body=body, ranks=1)


SHORT: dict[str, dict[str, Short]] = {
    "lightning": {"precision": precision},
    "lightning-own": {"unusable_mpi4py": unusable_mpi4py},
}
"""By the names of integrations and cases."""
