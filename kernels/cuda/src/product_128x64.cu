// Products in tiles of 128 x 64: four warps of 64 x 32, three blocks on a multiprocessor.
#include "product.cuh"

typedef Shape<128, 64, 2, 2, 4> TILE;

PRODUCTS(3)
NARROW_PRODUCTS(3)
