// Package panics makes errors of panics, so that a fault in one task ends that task and nothing else. No caller of a
// goroutine can recover from its panic: code that reads strangers' data in a goroutine of its own belongs in here.
package panics

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// An Error is a panic that was recovered from.
type Error struct {
	Value any
	Stack []byte
}

// Error implements error. It leaves out the stack, which is for logs.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// StackOf returns the stack of the panic that err is, "" if it is none.
func StackOf(err error) string {
	if e := new(Error); errors.As(err, &e) {
		return string(e.Stack)
	}
	return ""
}

// Recovered calls task, and returns its error. If task panics, that is an *Error.
func Recovered(task func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &Error{p, debug.Stack()}
		}
	}()
	return task()
}
