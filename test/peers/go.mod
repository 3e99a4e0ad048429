module github.com/mirrorset-guard/mirrorset-guard/test/peers

go 1.26.0

require (
	github.com/regclient/regclient v0.11.7
	golang.org/x/sync v0.24.0
	oras.land/oras-go/v2 v2.7.0
)

require (
	github.com/docker/libtrust v0.0.0-20160708172513-aabc10ec26b7 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/opencontainers/image-spec v1.1.1 // indirect
	github.com/sirupsen/logrus v1.10.2 // indirect
	github.com/ulikunitz/xz v0.5.17 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
