package follow

import "github.com/go-logr/logr"

// quiet returns log without the errors that are answers. client-go logs an error each time
// it asks for a resource that the cluster does not serve, which it does forever: people
// would look for a fault where there is none, and miss a real one.
func quiet(log logr.Logger, isAnswer func(error) bool) logr.Logger {
	if sink := log.GetSink(); sink != nil && isAnswer != nil {
		return log.WithSink(quietSink{sink, isAnswer})
	}
	return log
}

type quietSink struct {
	logr.LogSink
	isAnswer func(error) bool
}

// Error implements logr.LogSink.
func (s quietSink) Error(err error, msg string, keysAndValues ...any) {
	if err == nil || !s.isAnswer(err) {
		s.LogSink.Error(err, msg, keysAndValues...)
	}
}

// WithValues implements logr.LogSink.
func (s quietSink) WithValues(keysAndValues ...any) logr.LogSink {
	return quietSink{s.LogSink.WithValues(keysAndValues...), s.isAnswer}
}

// WithName implements logr.LogSink.
func (s quietSink) WithName(name string) logr.LogSink {
	return quietSink{s.LogSink.WithName(name), s.isAnswer}
}
