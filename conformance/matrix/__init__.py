"""What matrices/*.toml say, as validated values."""

from conformance.matrix.errors import MatrixError as MatrixError
from conformance.matrix.matrix import MATRICES as MATRICES
from conformance.matrix.matrix import Matrix as Matrix
from conformance.matrix.matrix import load_matrix as load_matrix
