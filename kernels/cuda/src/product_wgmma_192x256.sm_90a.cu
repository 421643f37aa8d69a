// Products in tiles of 192 x 256 by wgmma, for what is largest.
// What follows is needed for products of u8 and s8.
// PTX ISA 8.4
#include "wgmma.cuh"

typedef Wide<192, 256, 3, 4> TILE;

PLAIN_PRODUCTS(1)
WINDOW_PRODUCTS(1)
