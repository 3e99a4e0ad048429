package copying

import (
	"io"
	"log"
)

// quiet is where proxies complain of callers that left.
var quiet = log.New(io.Discard, "", 0)
