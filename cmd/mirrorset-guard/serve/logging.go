package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mirrorset-guard/mirrorset-guard/internal/queued"
)

// newLogger returns a logger that writes JSON lines.
func newLogger(level string, to io.Writer) (logr.Logger, error) {
	var l zapcore.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level %q: choose one of debug, info, warn, error", level)
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding), zapcore.Lock(zapcore.AddSync(to)), l)
	return zapr.NewLogger(zap.New(core)), nil
}

// logLines are lines of the log that wait to be written: the reader of standard error may hang, and must
// not delay reviews, which log.
type logLines struct {
	*queued.Queue

	lost prometheus.Counter
}

func newLogLines(to io.Writer) *logLines {
	return &logLines{
		queued.New(queued.Options{Loss: lossLine, Write: func(line []byte) error {
			_, err := to.Write(line)
			return err
		}}),
		prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mirrorset_guard_log_lines_lost_total",
			Help: "Lines of the log that found no room in the queue, as they could not be written to standard error.",
		}),
	}
}

var errNoRoom = errors.New("the queue is full, as lines could not be written")

// Write implements io.Writer. It does not wait, and does not keep line.
func (l *logLines) Write(line []byte) (int, error) {
	if !l.Add(bytes.Clone(line)) {
		l.lost.Inc()
		l.Lose(1, errNoRoom)
	}
	return len(line), nil
}

// lossLine returns the line about a loss, as the logger writes others.
func lossLine(loss queued.Loss) []byte {
	line, err := json.Marshal(struct {
		Level string    `json:"level"`
		Time  time.Time `json:"ts"`
		Msg   string    `json:"msg"`
		Lost  int       `json:"lost"`
		Since time.Time `json:"since"`
		Error string    `json:"error"`
	}{"error", loss.Last.UTC(), "Lost lines of this log", loss.Lost, loss.Since.UTC(), loss.Why.Error()})
	if err != nil {
		return nil
	}
	return append(line, '\n')
}

// log returns the logger for everything in this process, and has its lines written until stop is called,
// which returns when they are, or after some seconds.
func (o *serveOptions) log(to io.Writer) (log logr.Logger, stop func(), err error) {
	lines := newLogLines(to)
	o.lines = lines
	if log, err = newLogger(o.logLevel, lines); err != nil {
		return log, nil, err
	}
	ctrllog.SetLogger(log)
	klog.SetLogger(log)
	stdlog.SetOutput(lines)
	return log, start(context.Background(), func(ctx context.Context) { lines.Run(ctx) }), nil
}

// hangs returns an error if something cannot be written, and perhaps never will be.
func (g *guard) hangs() error {
	err := g.audit.Hangs()
	if hung := g.options.lines.Hangs(); hung != nil {
		err = errors.Join(err, fmt.Errorf("the log: %w", hung))
	}
	return err
}
