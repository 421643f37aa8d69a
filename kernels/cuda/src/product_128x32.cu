// Products in tiles of 128 x 32: four warps of 32 x 32, four blocks on a multiprocessor. For few columns.
#include "product.cuh"

typedef Shape<128, 32, 4, 1, 4> TILE;

PRODUCTS(4)
NARROW_PRODUCTS(4)
