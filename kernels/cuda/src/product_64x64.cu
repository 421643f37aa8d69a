// Products in tiles of 64 x 64: four warps of 32 x 32, four blocks on a multiprocessor. For what has few rows.
#include "product.cuh"

typedef Shape<64, 64, 2, 2, 4> TILE;

PRODUCTS(4)
NARROW_PRODUCTS(4)
