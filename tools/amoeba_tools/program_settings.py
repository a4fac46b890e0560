"""Settings by which MPIs and other programs communicate over libfabric or UCX only.

The settings are defaults: variables of the user stay, and Open MPI prefers ``--mca`` to variables.
"""

from collections.abc import Mapping

__all__ = ["OVER_LIBFABRIC", "OVER_UCX", "unless_set"]

_APART = {"MPIR_CVAR_NOLOCAL": "1"}
"""For MPICH, whose ranks of one host meet in its memory otherwise."""
OVER_LIBFABRIC: Mapping[str, str] = _APART | {
    "MPIR_CVAR_CH4_NETMOD": "ofi",
    "OMPI_MCA_pml": "cm",
    "OMPI_MCA_mtl": "ofi",
    "OMPI_MCA_mtl_ofi_provider_include": "amoeba",
    "OMPI_MCA_btl": "self,ofi",
    "OMPI_MCA_btl_ofi_mode": "2",
    "OMPI_MCA_osc": "rdma",
    "I_MPI_FABRICS": "ofi",
    "I_MPI_OFI_PROVIDER": "amoeba",
    "I_MPI_COLL_INTRANODE": "pt2pt",  # else ranks of one host have collectives in its memory
    "SHMEM_OFI_PROVIDER": "amoeba",
}
"""For MPICH, Open MPI 4 and 5, Intel MPI, and Sandia OpenSHMEM."""
OVER_UCX: Mapping[str, str] = _APART | {
    "MPIR_CVAR_CH4_NETMOD": "ucx",
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_osc": "ucx",
    "OMPI_MCA_pml_ucx_tls": "any",  # else it is content with devices of its list alone
    "OMPI_MCA_pml_ucx_devices": "any",
    "OMPI_MCA_osc_ucx_acc_single_intrinsic": "1",  # accumulates of one number are UCX's atomics
    "OMPI_MCA_spml": "ucx",
    "RAPIDS_LIBUCX_PREFER_SYSTEM_LIBRARY": "true",  # else it loads the UCX of a wheel
}
"""For MPICH, Open MPI with its OpenSHMEM, and ucxx."""
_MPICH = "MPIR_CVAR_"
_OTHER_NAMES = ("MPIR_PARAM_", "MPICH_")
"""Older beginnings of MPICH's variables, which it still knows."""


def unless_set(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that ``environment`` lacks under all their names."""
    return {name: value for name, value in settings.items() if not any(n in environment for n in _names(name))}


def _names(name: str) -> list[str]:
    """Return all names of a variable."""
    tail = name.removeprefix(_MPICH)
    return [name] if tail == name else [name, *(beginning + tail for beginning in _OTHER_NAMES)]
