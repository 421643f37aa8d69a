package emulate

type decodeFunc = func(d *decoder, in *instr)

// instructionTable says how each instruction is decoded, by its name without modifiers.
func instructionTable() map[string]decodeFunc {
	return map[string]decodeFunc{
		// control
		"bra": bra, "brx": brx, "call": (*decoder).call, "ret": ret, "exit": exit, "trap": trap, "brkpt": brkpt,
		"bar": opBar, "barrier": opBar, "membar": nothing, "fence": opFence, "nanosleep": nothing, "pmevent": nothing,
		"prefetch": nothing, "prefetchu": nothing, "discard": nothing,

		// integers and bits
		"mov": opMov, "add": opAdd, "addc": opAddc, "sub": opSub, "subc": opSubc, "mul": opMul, "mad": opMad, "mul24": opMul24,
		"mad24": opMad24, "div": opDiv, "rem": opRem, "abs": opAbs, "neg": opNeg, "min": opMin, "max": opMax, "sad": opSad,
		"and": opAnd, "or": opOr, "xor": opXor, "not": opNot, "cnot": opCnot, "shl": opShl, "shr": opShr, "shf": opShf,
		"popc": opPopc, "clz": opClz, "bfind": opBfind, "brev": opBrev, "bfe": opBfe, "bfi": opBfi, "prmt": opPrmt, "lop3": opLop3,
		"dp4a": opDp4a, "dp2a": opDp2a,

		// floating point
		"fma": opFma, "rcp": opRcp, "sqrt": opSqrt, "rsqrt": opRsqrt, "ex2": opEx2, "lg2": opLg2, "sin": opSin, "cos": opCos,
		"tanh": opTanh, "copysign": opCopysign, "testp": opTestp,

		// comparison, selection, conversion
		"setp": opSetp, "set": opSet, "selp": opSelp, "slct": opSlct, "cvt": opCvt,

		// memory
		"ld": opLd, "ldu": opLd, "st": opSt, "cvta": opCvta, "isspacep": opIsspacep, "atom": opAtom, "red": opAtom,

		// within a warp
		"shfl": opShfl, "vote": opVote, "match": opMatch, "activemask": opActivemask, "redux": opRedux,
		"mma": opMma, "ldmatrix": opLdmatrix, "cp": opCp, "wgmma": opWgmma,
	}
}
