// Products in tiles of 128 x 128 by wgmma, for short sums: two blocks on a multiprocessor.
// What follows is needed for products of u8 and s8.
// PTX ISA 8.4
#include "wgmma.cuh"

typedef Wide<128, 128, 1, 3> TILE;

PLAIN_PRODUCTS(2)
WINDOW_PRODUCTS(2)
