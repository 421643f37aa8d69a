// Products in tiles of 32 x 64: four warps of 32 x 16, six blocks on a multiprocessor. For very few rows, whose time is
// that of reading the weights: the ring is deep.
#include "product.cuh"

typedef Shape<32, 64, 1, 4, 6> TILE;

PRODUCTS(5)
