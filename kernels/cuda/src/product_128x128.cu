// Products in tiles of 128 x 128: four warps of 64 x 64, two blocks on a multiprocessor.
#include "product.cuh"

typedef Shape<128, 128, 2, 2, 4> TILE;

PRODUCTS(2)
