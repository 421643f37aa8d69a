package shard

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// errDamaged is the error of bytes that encode does not write.
var errDamaged = errors.New("damaged")

// encode writes the value that v points to, all fields of its structs, floats bit for bit. The same value gives the same bytes: the entries
// of maps stand in the order of their bytes. nil and empty are told apart. What an interface holds is one of kinds, by its place among
// them.
func encode(v any, kinds []any) ([]byte, error) {
	e := encoder{kinds: kinds}
	err := e.value(reflect.ValueOf(v).Elem())
	return e.b, err
}

type encoder struct {
	b     []byte
	kinds []any
}

func (e *encoder) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }

func (e *encoder) value(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Bool:
		e.uint(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.b = binary.AppendVarint(e.b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.uint(v.Uint())
	case reflect.Float32:
		e.b = binary.LittleEndian.AppendUint32(e.b, math.Float32bits(float32(v.Float())))
	case reflect.Float64:
		e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(v.Float()))
	case reflect.String:
		e.uint(uint64(v.Len()))
		e.b = append(e.b, v.String()...)
	case reflect.Array:
		return e.elements(v)
	case reflect.Slice:
		if v.IsNil() {
			e.uint(0)
			return nil
		}
		e.uint(uint64(v.Len()) + 1)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			e.b = append(e.b, v.Bytes()...)
			return nil
		}
		return e.elements(v)
	case reflect.Struct:
		for i := range v.NumField() {
			if err := e.value(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			e.uint(0)
			return nil
		}
		e.uint(1)
		return e.value(v.Elem())
	case reflect.Map:
		return e.entries(v)
	case reflect.Interface:
		if v.IsNil() {
			e.uint(0)
			return nil
		}
		k := slices.IndexFunc(e.kinds, func(kind any) bool { return reflect.TypeOf(kind) == v.Elem().Type() })
		if k < 0 {
			return fmt.Errorf("nothing is known of a %s", v.Elem().Type())
		}
		e.uint(uint64(k) + 1)
		return e.value(v.Elem())
	default:
		return fmt.Errorf("a %s has no bytes", v.Type())
	}
	return nil
}

func (e *encoder) elements(v reflect.Value) error {
	for i := range v.Len() {
		if err := e.value(v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) entries(v reflect.Value) error {
	if v.IsNil() {
		e.uint(0)
		return nil
	}
	entries := make([]string, 0, v.Len()) // keys differ, so that whole entries stand in the order of keys
	for it := v.MapRange(); it.Next(); {
		x := encoder{kinds: e.kinds}
		if err := cmp.Or(x.value(it.Key()), x.value(it.Value())); err != nil {
			return err
		}
		entries = append(entries, string(x.b))
	}
	slices.Sort(entries)
	e.uint(uint64(len(entries)) + 1)
	for _, x := range entries {
		e.b = append(e.b, x...)
	}
	return nil
}

// decode reads into what v points to. Bytes that are too few or too many, or that no value has, are an error; memory is taken as bytes are
// read.
func decode(b []byte, v any, kinds []any) error {
	d := decoder{b: b, kinds: kinds}
	if err := d.value(reflect.ValueOf(v).Elem()); err != nil {
		return err
	}
	if len(d.b) > 0 {
		return errDamaged
	}
	return nil
}

type decoder struct {
	b     []byte
	kinds []any
}

func (d *decoder) uint() (uint64, error) {
	n, used := binary.Uvarint(d.b)
	if used <= 0 {
		return 0, errDamaged
	}
	d.b = d.b[used:]
	return n, nil
}

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.b)) {
		return nil, errDamaged
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b, nil
}

func (d *decoder) value(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Bool:
		n, err := d.uint()
		v.SetBool(n == 1)
		return err
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, used := binary.Varint(d.b)
		if used <= 0 || v.OverflowInt(n) {
			return errDamaged
		}
		d.b = d.b[used:]
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := d.uint()
		if err != nil || v.OverflowUint(n) {
			return errDamaged
		}
		v.SetUint(n)
	case reflect.Float32:
		b, err := d.take(4)
		if err != nil {
			return err
		}
		v.SetFloat(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case reflect.Float64:
		b, err := d.take(8)
		if err != nil {
			return err
		}
		v.SetFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case reflect.String:
		n, err := d.uint()
		if err != nil {
			return err
		}
		b, err := d.take(n)
		v.SetString(string(b))
		return err
	case reflect.Array, reflect.Struct:
		return d.fields(v)
	case reflect.Slice, reflect.Map, reflect.Pointer, reflect.Interface:
		return d.some(v)
	}
	return nil
}

// fields reads the elements of an array or the fields of a struct. reflect sets no field that has no exported name, unless it is reached by
// its address.
func (d *decoder) fields(v reflect.Value) error {
	if v.Kind() == reflect.Array {
		for i := range v.Len() {
			if err := d.value(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range v.NumField() {
		f := v.Field(i)
		if err := d.value(reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()); err != nil {
			return err
		}
	}
	return nil
}

// some reads what may be nil.
func (d *decoder) some(v reflect.Value) error {
	n, err := d.uint()
	if err != nil || n == 0 {
		return err
	}
	fresh := func(t reflect.Type) (reflect.Value, error) {
		x := reflect.New(t).Elem()
		return x, d.value(x)
	}
	n--
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(v.Elem())
	case reflect.Interface:
		if n >= uint64(len(d.kinds)) {
			return errDamaged
		}
		x, err := fresh(reflect.TypeOf(d.kinds[n]))
		if err == nil {
			v.Set(x)
		}
		return err
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	default:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	}
	if n > uint64(len(d.b)) { // each takes a byte
		return errDamaged
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		b, err := d.take(n)
		v.SetBytes(append([]byte{}, b...))
		return err
	}
	for range n {
		if v.Kind() == reflect.Slice {
			x, err := fresh(v.Type().Elem())
			if err != nil {
				return err
			}
			v.Set(reflect.Append(v, x))
			continue
		}
		k, err := fresh(v.Type().Key())
		if err != nil {
			return err
		}
		x, err := fresh(v.Type().Elem())
		if err != nil {
			return err
		}
		v.SetMapIndex(k, x)
	}
	return nil
}

// layoutOf is the hash of the type that v points to, with all that it is made of: names and types of fields, and of kinds.
func layoutOf(v any, kinds []any) string {
	var b strings.Builder
	seen := map[reflect.Type]bool{}
	var write func(t reflect.Type)
	write = func(t reflect.Type) {
		fmt.Fprintf(&b, "%s %s{", t, t.Kind())
		if seen[t] {
			b.WriteByte('}')
			return
		}
		seen[t] = true
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				b.WriteString(t.Field(i).Name + " ")
				write(t.Field(i).Type)
			}
		case reflect.Map:
			write(t.Key())
			write(t.Elem())
		case reflect.Array, reflect.Slice, reflect.Pointer:
			write(t.Elem())
		}
		b.WriteByte('}')
	}
	write(reflect.TypeOf(v).Elem())
	for _, k := range kinds {
		write(reflect.TypeOf(k))
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}
