package emulate

// source is parsed PTX, before any instruction is looked at.
type source struct {
	version, target string
	vars            []*variable
	funcs           []*function
}

// variable is a declaration in a state space.
type variable struct {
	name    string
	space   string // global, const, shared, local, param
	align   int
	bytes   int
	dynamic bool // extern .shared array without a length
	extern  bool
	init    []initial
	element int // bytes of one element of the initialiser
	float   bool
	line    int
}

// initial is one element of an initialiser: a number or an address.
type initial struct {
	bits   uint64
	symbol string
	offset int64
}

// function is an entry point or a device function.
type function struct {
	name     string
	entry    bool
	params   []*variable
	returns  []*variable
	body     string // what stands behind the opening brace, up to the closing one; "" for a declaration
	bodyLine int    // where it begins
	threads  [3]int // .maxntid or .reqntid; 0 is not said
	required bool   // .reqntid
	line     int
}

// scope is a { } block: statements in order.
type scope struct{ body []statement }

// statement is one of the fields that is set.
type statement struct {
	inner   *scope
	label   string
	reg     *registers
	v       *variable
	targets *targets
	op      *operation
}

// registers is a .reg declaration of one name, or of name0 to name<count-1>.
type registers struct {
	name  string
	count int // 0 is a single one
	typ   ptype
	line  int
}

// targets is a named list of labels, for brx.idx.
type targets struct {
	name   string
	labels []string
}

// operation is an instruction as written.
type operation struct {
	pred     string // "" is always
	negate   bool
	name     string   // add
	mods     []string // s32
	opcode   string   // add.s32
	operands []operand
	line     int
	text     string // for messages
}

type operandKind uint8

const (
	opdName operandKind = iota // register, variable or label
	opdInt
	opdFloat32
	opdFloat64
	opdAddress // [name+offset]
	opdVector  // {a, b}
	opdList    // (a, b) of a call
)

// operand is an operand of an instruction.
type operand struct {
	kind   operandKind
	name   string // also the base of an address; "" is none
	pair   string // the second name of a|b
	negate bool   // !name
	bits   uint64
	offset int64
	list   []operand
}
