package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// unpickler reads the pickle (protocol 2, docs.python.org/3/library/pickletools.html) of the weights that torch.save writes. It knows the
// opcodes and the names that those need, and no others: nothing is imported or called. Values hold each other as Python has them, also in
// circles; nothing here follows them downwards, so that their depth does not matter. An opcode makes at most one value, and
// containers take theirs from the stack, so that the memory is in proportion to the bytes.
type unpickler struct {
	b     []byte
	stack []any
	marks []int
	memo  map[uint32]any
}

// What there is beside nil, bool, int, float64 and string.
type (
	pickleTuple []any
	pickleList  struct{ items []any }
	pickleDict  struct{ keys, values []any }
	pickleName  string // of a class or function: "torch.FloatStorage"
)

// torchStorage is the array of numbers that tensors are parts of: an entry of the archive.
type torchStorage struct {
	key   string
	dtype string // as safetensors has it
	count int
}

type torchTensor struct {
	storage       torchStorage
	offset        int
	shape, stride []int
	strided       bool
}

// maxPickle bounds the pickle of a checkpoint, which has some 200 bytes for a tensor.
const maxPickle = 16 << 20

// pickleNames are what a pickle may name.
var pickleNames = map[pickleName]bool{"collections.OrderedDict": true, "torch._utils._rebuild_tensor_v2": true,
	"torch._utils._rebuild_parameter": true}

// torchStorages are the types of arrays, with those of safetensors.
var torchStorages = map[pickleName]string{"torch.FloatStorage": "F32", "torch.HalfStorage": "F16", "torch.BFloat16Storage": "BF16",
	"torch.DoubleStorage": "F64", "torch.LongStorage": "I64", "torch.IntStorage": "I32", "torch.ShortStorage": "I16",
	"torch.CharStorage": "I8", "torch.ByteStorage": "U8", "torch.BoolStorage": "BOOL"}

var errPickle = errors.New("the pickle is damaged")

// unpickle returns the value of a pickle.
func unpickle(b []byte) (value any, err error) {
	if len(b) > maxPickle {
		return nil, fmt.Errorf("a pickle of %d bytes; at most %d are read", len(b), maxPickle)
	}
	p := unpickler{b: b, memo: map[uint32]any{}}
	for {
		op, err := p.take(1)
		if err != nil {
			return nil, err
		}
		if op[0] == '.' {
			return p.pop()
		}
		at := len(b) - len(p.b) - 1
		if err := p.step(op[0]); err != nil {
			return nil, fmt.Errorf("byte %d of the pickle: %w", at, err)
		}
	}
}

// take returns the next n bytes.
func (p *unpickler) take(n int) ([]byte, error) {
	if n < 0 || n > len(p.b) {
		return nil, fmt.Errorf("%w: it ends too early", errPickle)
	}
	out := p.b[:n]
	p.b = p.b[n:]
	return out, nil
}

// number reads an unsigned integer of n bytes.
func (p *unpickler) number(n int) (uint64, error) {
	b, err := p.take(n)
	var whole [8]byte
	copy(whole[:], b)
	return binary.LittleEndian.Uint64(whole[:]), err
}

// line reads up to the end of a line.
func (p *unpickler) line() (string, error) {
	n := bytes.IndexByte(p.b, '\n')
	if n < 0 {
		return "", fmt.Errorf("%w: it ends too early", errPickle)
	}
	b, err := p.take(n + 1)
	return string(bytes.TrimSuffix(b, []byte("\n"))), err
}

func (p *unpickler) push(v any) { p.stack = append(p.stack, v) }

// floor is what the innermost mark leaves below.
func (p *unpickler) floor() int {
	if len(p.marks) == 0 {
		return 0
	}
	return p.marks[len(p.marks)-1]
}

func (p *unpickler) pop() (any, error) {
	n := len(p.stack)
	if n <= p.floor() {
		return nil, fmt.Errorf("%w: there is no value", errPickle)
	}
	v := p.stack[n-1]
	p.stack = p.stack[:n-1]
	return v, nil
}

// popMany returns the last n values; n below 0: those behind the innermost mark, which goes.
func (p *unpickler) popMany(n int) ([]any, error) {
	from := p.floor()
	if n < 0 {
		if len(p.marks) == 0 {
			return nil, fmt.Errorf("%w: there is no mark", errPickle)
		}
		p.marks = p.marks[:len(p.marks)-1]
	} else if from = max(from, len(p.stack)-n); len(p.stack)-from != n {
		return nil, fmt.Errorf("%w: there are no %d values", errPickle, n)
	}
	out := append([]any(nil), p.stack[from:]...)
	p.stack = p.stack[:from]
	return out, nil
}

// step does one opcode.
func (p *unpickler) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		if n, err := p.number(1); err != nil || n != 2 {
			return errors.Join(err, fmt.Errorf("protocol %d; torch.save writes 2", n))
		}
		return nil
	case '(': // MARK
		p.marks = append(p.marks, len(p.stack))
		return nil
	case 'N', 0x88, 0x89, '}', ']', ')', 'M', 'K', 'J', 0x8a, 'G', 'X':
		v, err := p.plain(op)
		p.push(v)
		return err
	case 't', 0x85, 0x86, 0x87: // TUPLE, TUPLE1 to TUPLE3
		n := -1
		if op != 't' {
			n = int(op - 0x84)
		}
		items, err := p.popMany(n)
		p.push(pickleTuple(items))
		return err
	case 'q', 'r', 'h', 'j': // BINPUT, LONG_BINPUT, BINGET, LONG_BINGET
		return p.remember(op)
	case 's', 'u': // SETITEM, SETITEMS
		return p.set(op)
	case 'a', 'e': // APPEND, APPENDS
		n := 1
		if op == 'e' {
			n = -1
		}
		items, err := p.popMany(n)
		if list, ok := p.top().(*pickleList); ok && err == nil {
			list.items = append(list.items, items...)
			return nil
		}
		return errors.Join(err, errPickle)
	case 'c', 'Q', 'R', 'b': // GLOBAL, BINPERSID, REDUCE, BUILD
		return p.object(op)
	}
	return fmt.Errorf("opcode 0x%02x does not belong to weights: it is not run", op)
}

// top is the last value, nil where there is none.
func (p *unpickler) top() any {
	if n := len(p.stack); n > p.floor() {
		return p.stack[n-1]
	}
	return nil
}

// plain reads a value that stands in the pickle.
func (p *unpickler) plain(op byte) (any, error) {
	switch op {
	case 'N':
		return nil, nil
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		return op == 0x88, nil
	case '}':
		return &pickleDict{}, nil
	case ']':
		return &pickleList{}, nil
	case ')':
		return pickleTuple(nil), nil
	case 'K', 'M': // BININT1, BININT2
		n, err := p.number(int(op-'K')/2 + 1)
		return int(n), err
	case 'J': // BININT
		n, err := p.number(4)
		return int(int32(n)), err
	case 0x8a: // LONG1
		size, err := p.number(1)
		if err != nil || size > 8 {
			return nil, errors.Join(err, fmt.Errorf("an integer of %d bytes", size))
		}
		n, err := p.number(int(size))
		if size > 0 {
			shift := 64 - 8*size
			n = uint64(int64(n<<shift) >> shift)
		}
		return int(int64(n)), err
	case 'G': // BINFLOAT
		b, err := p.take(8)
		if err != nil {
			return nil, err
		}
		return math.Float64frombits(binary.BigEndian.Uint64(b)), nil
	}
	n, err := p.number(4) // BINUNICODE
	if err != nil {
		return nil, err
	}
	b, err := p.take(int(n))
	return string(b), err
}

// remember puts the last value under a number, or gets one.
func (p *unpickler) remember(op byte) error {
	size := 1
	if op == 'r' || op == 'j' {
		size = 4
	}
	n, err := p.number(size)
	if err != nil {
		return err
	}
	if op == 'q' || op == 'r' {
		if len(p.stack) <= p.floor() {
			return errPickle
		}
		p.memo[uint32(n)] = p.top()
		return nil
	}
	v, ok := p.memo[uint32(n)]
	if !ok {
		return fmt.Errorf("%w: there is no value %d", errPickle, n)
	}
	p.push(v)
	return nil
}

// set puts keys and values into a dictionary.
func (p *unpickler) set(op byte) error {
	n := 2
	if op == 'u' {
		n = -1
	}
	items, err := p.popMany(n)
	d, ok := p.top().(*pickleDict)
	if !ok || err != nil || len(items)%2 != 0 {
		return errors.Join(err, errPickle)
	}
	for i := 0; i < len(items); i += 2 {
		d.keys, d.values = append(d.keys, items[i]), append(d.values, items[i+1])
	}
	return nil
}

// object does what names, makes or changes an object.
func (p *unpickler) object(op byte) error {
	switch op {
	case 'c':
		module, err := p.line()
		if err != nil {
			return err
		}
		name, err := p.line()
		full := pickleName(module + "." + name)
		if err == nil && !pickleNames[full] && torchStorages[full] == "" {
			return fmt.Errorf("%.80q does not belong to weights: it is not loaded", full)
		}
		p.push(full)
		return err
	case 'Q':
		id, err := p.pop()
		if err != nil {
			return err
		}
		s, err := storageOf(id)
		p.push(s)
		return err
	case 'b':
		if _, err := p.pop(); err != nil { // attributes, such as the versions of modules
			return err
		}
		if _, ok := p.top().(*pickleDict); !ok {
			return errPickle
		}
		return nil
	}
	called, err := p.popMany(2)
	if err != nil {
		return err
	}
	args, ok := called[1].(pickleTuple)
	name, named := called[0].(pickleName)
	if !ok || !named {
		return errPickle
	}
	v, err := rebuild(name, args)
	p.push(v)
	return err
}

// rebuild is what the functions that may be called make.
func rebuild(name pickleName, args pickleTuple) (any, error) {
	switch {
	case name == "collections.OrderedDict" && len(args) == 0:
		return &pickleDict{}, nil
	case name == "torch._utils._rebuild_parameter" && len(args) == 3:
		if t, ok := args[0].(*torchTensor); ok {
			return t, nil
		}
	case name == "torch._utils._rebuild_tensor_v2" && (len(args) == 6 || len(args) == 7):
		storage, isStorage := args[0].(torchStorage)
		offset, isInt := args[1].(int)
		shape, err := dimensions(args[2])
		stride, other := dimensions(args[3])
		if isStorage && isInt && err == nil && other == nil {
			t := &torchTensor{storage: storage, offset: offset, shape: shape, stride: stride}
			return t, t.check()
		}
	}
	return nil, fmt.Errorf("%w: %s with %d arguments", errPickle, name, len(args))
}

// dimensions reads a tuple of integers that are not negative.
func dimensions(v any) ([]int, error) {
	list, ok := v.(pickleTuple)
	if !ok || len(list) > 8 {
		return nil, errPickle
	}
	out := make([]int, len(list))
	for i, d := range list {
		n, ok := d.(int)
		if !ok || n < 0 {
			return nil, errPickle
		}
		out[i] = n
	}
	return out, nil
}

// storageOf reads what stands for an array: "storage", its type, the name of its entry, a device, and how many elements it has.
func storageOf(id any) (s torchStorage, err error) {
	t, ok := id.(pickleTuple)
	if !ok || len(t) != 5 || t[0] != any("storage") {
		return s, errPickle
	}
	kind, isName := t[1].(pickleName)
	key, isText := t[2].(string)
	n, isInt := t[4].(int)
	if s = (torchStorage{key: key, dtype: torchStorages[kind], count: n}); !isName || !isText || !isInt || s.dtype == "" || n < 0 {
		return s, errPickle
	}
	return s, nil
}

// check reports a tensor that leaves its storage. strided says whether its elements lie otherwise than row by row.
func (t *torchTensor) check() error {
	if len(t.shape) != len(t.stride) || t.offset < 0 {
		return errPickle
	}
	last, elements := t.offset, 1
	for i := len(t.shape) - 1; i >= 0; i-- {
		d, s := t.shape[i], t.stride[i]
		if d == 0 {
			t.strided = false
			return nil
		}
		t.strided = t.strided || d > 1 && s != elements
		if d-1 > 0 && s > (math.MaxInt64-last)/(d-1) || d > math.MaxInt64/elements {
			return fmt.Errorf("a tensor of the shape %d and strides %d", t.shape, t.stride)
		}
		last += (d - 1) * s
		elements *= d
	}
	if last >= t.storage.count || elements > t.storage.count {
		return fmt.Errorf("a tensor of the shape %d and strides %d from element %d on leaves its storage of %d", t.shape, t.stride, t.offset,
			t.storage.count)
	}
	return nil
}
