# shellcheck shell=bash
# The images of the sandbox's pods: Debian packages, Kubernetes' test server and CoreDNS, as archives that containerd
# imports. No registry and no container engine has a part in it.

image_suite=trixie
# Raise the last number when the content of an image changes: it names the folder.
image_folder=$cache/image-$image_suite-$machine-3
image_packages=(bash coreutils curl dash grep hostname iproute2 iputils-ping libc-bin netcat-openbsd procps sed tcpdump)
# What Kubernetes' own tests ask for beside that is large, so it is an archive of its own.
e2e_image_folder=$cache/image-e2e-$image_suite-$machine-3
e2e_packages=(bind9-dnsutils wget)

setup_image() {
    part=image
    if [ -n "${CAUSEWAY_PROGRAMS:-}" ] && [ -e "$schemas/causeway-tools.tar" ]; then return; fi
    whole "$image_folder" || {
        provide "$(unit agnhost "$(locked "$kube_sources" k8s.io/kubernetes)")" build_kubernetes agnhost
        provide_coredns
        alone image make_unit "$image_folder" make_image causeway-tools.tar
    }
    link "$schemas" "$image_folder/causeway-tools.tar"
}

setup_e2e_image() {
    part=image
    whole "$e2e_image_folder" || {
        provide "$(unit agnhost "$(locked "$kube_sources" k8s.io/kubernetes)")" build_kubernetes agnhost
        provide_coredns
        alone e2e-image make_unit "$e2e_image_folder" make_e2e_image causeway-e2e.tar
    }
    link "$schemas" "$e2e_image_folder/causeway-e2e.tar"
}

make_image() {
    local archive=$1/archive tools dns
    say "making the images of pods from Debian $image_suite's packages"
    image_tools "$1" "${image_packages[@]}"
    mkdir -p "$archive" "$1/dns"
    cp -L "$programs/coredns" "$1/dns/coredns"
    tools=$(image_layer "$archive" "$1/root")
    dns=$(image_layer "$archive" "$1/dns")
    # The tools with a server as their default, the one that holds a pod's namespaces, the names that Kubernetes' own tests and
    # other judges ask for, and DNS with nothing else in it.
    image_add "$archive" "$tools" tools '"Cmd":["/agnhost","netexec","--http-port=8080","--udp-port=8081"]' \
        localhost/causeway-tools:latest localhost/causeway-tools:1
    image_add "$archive" "$tools" pause '"Entrypoint":["/usr/bin/sleep"],"Cmd":["infinity"]' \
        localhost/causeway-pause:1 registry.k8s.io/pause:3.10.2
    image_add "$archive" "$tools" agnhost "$image_agnhost" registry.k8s.io/e2e-test-images/agnhost:{2.63.0,2.45,2.43}
    image_add "$archive" "$dns" dns '"Entrypoint":["/coredns"]' localhost/causeway-dns:1
    image_archive "$archive" >"$1/fresh/causeway-tools.tar"
    mv "$1/packages" "$1/fresh/"
}

make_e2e_image() {
    local archive=$1/archive layer
    say "making the images of Kubernetes' own tests from Debian $image_suite's packages"
    image_tools "$1" "${image_packages[@]}" "${e2e_packages[@]}"
    image_of_agnhost "$1/root"
    mkdir -p "$archive"
    layer=$(image_layer "$archive" "$1/root")
    image_add "$archive" "$layer" agnhost "$image_agnhost" registry.k8s.io/e2e-test-images/agnhost:2.63.0
    # Of these the tests want a shell, dig and getent, or only that they run.
    image_add "$archive" "$layer" others '"Cmd":["/agnhost","pause"]' \
        registry.k8s.io/e2e-test-images/{glibc-dns-testing:2.0.0,busybox:1.37.0-1,nginx:1.15-4}
    image_archive "$archive" >"$1/fresh/causeway-e2e.tar"
    mv "$1/packages" "$1/fresh/"
}

# image_of_agnhost ROOT: what the tests expect beside the server in its image.
image_of_agnhost() {
    local sources
    sources=$(module_folder "$kube_sources" k8s.io/kubernetes)/test/images/agnhost
    cp "$sources"/porter/localhost.{crt,key} "$1/"
    cp -L "$programs/coredns" "$1/coredns"
    ln -s agnhost "$1/agnhost-2"
    mkdir "$1/uploads"
}

image_agnhost='"Entrypoint":["/agnhost"],"Cmd":["pause"]'

# image_tools WORK PACKAGE...: a file system with the packages and the server, in WORK/root.
image_tools() {
    local work=$1
    shift
    instead="Put image archives of your own at $schemas/causeway-tools.tar and causeway-e2e.tar."
    open_suite "$work" $image_suite
    image_layout "$work/root"
    fetch_packages "$work" "$@"
    image_trim "$work/root"
}

# Debian's packages expect these links to be there before them.
image_layout() {
    local folder
    for folder in bin sbin lib lib64; do
        mkdir -p "$1/usr/$folder"
        ln -s "usr/$folder" "$1/$folder"
    done
}

image_trim() {
    rm -rf "$1"/usr/share/{doc,man,locale,info,lintian,bash-completion} "$1"/var/cache
    [ -e "$1/usr/bin/sh" ] || ln -s dash "$1/usr/bin/sh"
    ln -sf nc.openbsd "$1/usr/bin/nc"
    cp -L "$programs/agnhost" "$1/agnhost"
    mkdir -p "$1"/{dev,etc,proc,root,sys,tmp}
    chmod 1777 "$1/tmp"
    printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' >"$1/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$1/etc/group"
}

# image_layer ARCHIVE FOLDER: the folder as a layer of the archive; prints its name.
image_layer() {
    local layer
    image_tar -C "$2" . >"$1/layer.tar"
    layer=$(sha256sum <"$1/layer.tar" | cut -c-64)
    mv "$1/layer.tar" "$1/$layer.tar"
    printf %s "$layer"
}

# image_add ARCHIVE LAYER NAME CONFIG TAG...: an image of one layer.
image_add() {
    local archive=$1 layer=$2 name=$3 config=$4 tags
    shift 4
    image_config "$layer" "$config" >"$archive/$name.json"
    tags=$(printf ',"%s"' "$@")
    printf ',{"Config":"%s.json","RepoTags":[%s],"Layers":["%s.tar"]}' "$name" "${tags#,}" "$layer" >>"$archive/images"
}

image_archive() {
    printf '[%s]' "$(tail -c +2 "$1/images")" >"$1/manifest.json"
    rm "$1/images"
    (cd "$1" && image_tar -- *)
}

# Equal content gives equal bytes, so a digest says what is inside.
image_tar() { tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 "$@"; }

image_config() {
    printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],%s},' "$(release_machine)" "$2"
    printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$1"
}
