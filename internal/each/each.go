// Package each makes one slice of another.
package each

// Of returns what f makes of each of list, in order. Nil, which is null in JSON, stays nil.
func Of[A, B any](list []A, f func(A) B) []B {
	if list == nil {
		return nil
	}
	made := make([]B, len(list))
	for i, one := range list {
		made[i] = f(one)
	}
	return made
}
