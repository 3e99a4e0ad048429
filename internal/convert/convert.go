// Package convert makes values of one type of those of another: slices, and numbers of what is true.
package convert

// Each returns what f makes of each of list, in order. Nil, which is null in JSON, stays nil.
func Each[A, B any](list []A, f func(A) B) []B {
	if list == nil {
		return nil
	}
	made := make([]B, len(list))
	for i, one := range list {
		made[i] = f(one)
	}
	return made
}
