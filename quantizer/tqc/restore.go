package tqc

import (
	"fmt"
	"reflect"
	"slices"
)

// Saved is the stored form of a slot: what a plan keeps of it.
type Saved struct {
	Config   Config // the zero Config where State is FP32
	State    State
	Root     SlotID // itself where the slot is not governed by another
	Params   Params // of a root; empty otherwise, and while there is no scale
	Weight   bool
	Observer Observer
}

// Save returns the stored form of a slot.
func (s *Set) Save(id SlotID) Saved {
	sl := &s.slots[id]
	return Saved{Config: sl.Config, State: sl.state, Root: s.root[id], Params: sl.params, Weight: sl.Weight, Observer: sl.Observer}
}

// Alike reports whether two sets of one graph have the same domains and quantize the same slots with the same numbers, whatever found them.
func (s *Set) Alike(o *Set) bool {
	numbers := func(s *Set, id SlotID) Saved {
		v := s.Save(id)
		v.Observer, v.Config.Observer = "", ""
		return v
	}
	if len(s.slots) != len(o.slots) || !slices.Equal(s.Domains, o.Domains) {
		return false
	}
	for id := range SlotID(len(s.slots)) {
		if !reflect.DeepEqual(numbers(s, id), numbers(o, id)) {
			return false
		}
	}
	return true
}

// RestoreError says which slot could not be restored.
type RestoreError struct {
	Slot SlotID
	Err  error
}

func (e *RestoreError) Error() string { return fmt.Sprintf("slot %d: %v", e.Slot, e.Err) }

func (e *RestoreError) Unwrap() error { return e.Err }

// Restore replaces the state of all slots by saved, one entry per slot in order of SlotID. States, scales and roots that no
// sequence of calls can lead to are refused with a *RestoreError, and the set is unchanged.
func (s *Set) Restore(saved []Saved) error {
	if len(saved) != len(s.slots) {
		return fmt.Errorf("%d slots stored, the graph has %d", len(saved), len(s.slots))
	}
	if err := CheckSaved(saved); err != nil {
		return err
	}
	for i := range saved {
		sl, sv := &s.slots[i], &saved[i]
		sl.Config, sl.state, sl.params, sl.Weight, sl.Observer = sv.Config, sv.State, sv.Params, sv.Weight, sv.Observer
		s.root[i] = sv.Root
	}
	return nil
}

// CheckSaved reports, as a *RestoreError, the first slot whose stored form contradicts itself or the slot that governs it.
// Roots are indices into saved.
func CheckSaved(saved []Saved) error {
	for _, roots := range []bool{true, false} { // a bad scale is reported where it stands
		for i := range saved {
			if id := SlotID(i); (saved[i].Root == id) == roots {
				if err := checkSaved(saved, id); err != nil {
					return &RestoreError{id, err}
				}
			}
		}
	}
	return nil
}

func checkSaved(saved []Saved, id SlotID) error {
	sv := &saved[id]
	if int(sv.State) >= len(stateNames) {
		return fmt.Errorf("unknown %s", sv.State)
	}
	if sv.Root < 0 || int(sv.Root) >= len(saved) {
		return fmt.Errorf("governed by slot %d, which does not exist", sv.Root)
	}
	root := &saved[sv.Root]
	own := sv.Root == id
	switch {
	case root.Root != sv.Root:
		return fmt.Errorf("governed by slot %d, which is itself governed by slot %d", sv.Root, root.Root)
	case !own && len(sv.Params.Scale) > 0:
		return fmt.Errorf("has a scale of its own and is governed by slot %d", sv.Root)
	}
	if sv.State == FP32 {
		if !own || len(sv.Params.Scale) > 0 {
			return fmt.Errorf("FP32 with a scale")
		}
		return nil
	}
	if err := sv.Config.Validate(); err != nil {
		return err
	}
	if err := sv.Observer.Valid(); err != nil {
		return err
	}
	switch sv.State {
	case Initial, Activated, Baked:
		if !own {
			return fmt.Errorf("%s, but governed by slot %d", sv.State, sv.Root)
		}
		if sv.State == Initial && len(sv.Params.Scale) > 0 {
			return fmt.Errorf("INITIAL, which is a slot that has no scale yet, with a scale")
		}
	case Overlapped:
		if own {
			return fmt.Errorf("OVERLAPPED, but no other slot governs it")
		}
	}
	if !own && (root.State == FP32 || root.State == Overlapped) {
		return fmt.Errorf("governed by slot %d, which is %s", sv.Root, root.State)
	}
	if root.State != FP32 && sv.Config.RunTime() != root.Config.RunTime() {
		return fmt.Errorf("scales at run time for one of two slots that share them")
	}
	if len(root.Params.Scale) == 0 {
		switch sv.State {
		case Activated, Passive, Baked, PassiveBaked:
			if root.Config.NeedsScale() || root.State == Initial {
				return fmt.Errorf("%s without a scale", sv.State)
			}
		}
		return nil
	}
	return root.Params.check(&sv.Config)
}
