# shellcheck shell=bash
# The image of the sandbox's pods: Debian packages and Kubernetes' test server in one layer, as an archive that
# containerd imports. No registry and no container engine has a part in it.

image_suite=trixie
# Raise the last number when the image's content changes: it names the folder.
image_folder=$cache/image-$image_suite-$machine-1
image_packages=(bash coreutils curl dash grep hostname iproute2 iputils-ping netcat-openbsd procps sed tcpdump)

setup_image() {
    part=image
    if [ -n "${CAUSEWAY_PROGRAMS:-}" ] && [ -e "$schemas/causeway-tools.tar" ]; then return; fi
    whole "$image_folder" || {
        provide "$(unit agnhost "$(locked "$kube_sources" k8s.io/kubernetes)")" build_kubernetes agnhost
        alone image make_unit "$image_folder" make_image causeway-tools.tar
    }
    link "$schemas" "$image_folder/causeway-tools.tar"
}

make_image() {
    local work=$1
    say "making the tool image from Debian $image_suite's packages"
    instead="Put an image archive of your own at $schemas/causeway-tools.tar."
    open_suite "$work" $image_suite
    image_layout "$work/root"
    fetch_packages "$work" "${image_packages[@]}"
    image_trim "$work/root"
    image_archive "$work" >"$work/fresh/causeway-tools.tar"
    mv "$work/packages" "$work/fresh/"
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

# image_archive WORK: three images of one layer: the tools with a server as their default, the one that holds a pod's
# namespaces, and the two names that Kubernetes' own tests ask for.
image_archive() {
    local work=$1 archive=$1/archive layer
    mkdir "$archive"
    image_tar -C "$work/root" . >"$archive/layer.tar"
    layer=$(sha256sum <"$archive/layer.tar" | cut -c-64)
    mv "$archive/layer.tar" "$archive/$layer.tar"
    image_config "$layer" '"Cmd":["/agnhost","netexec","--http-port=8080","--udp-port=8081"]' >"$archive/tools.json"
    image_config "$layer" '"Entrypoint":["/usr/bin/sleep"],"Cmd":["infinity"]' >"$archive/pause.json"
    image_config "$layer" '"Entrypoint":["/agnhost"],"Cmd":["pause"]' >"$archive/agnhost.json"
    {
        printf '[{"Config":"tools.json","RepoTags":["localhost/causeway-tools:latest","localhost/causeway-tools:1"],"Layers":["%s.tar"]},' "$layer"
        printf '{"Config":"pause.json","RepoTags":["localhost/causeway-pause:1","registry.k8s.io/pause:3.10.2"],"Layers":["%s.tar"]},' "$layer"
        printf '{"Config":"agnhost.json","RepoTags":["registry.k8s.io/e2e-test-images/agnhost:2.63.0"],"Layers":["%s.tar"]}]' "$layer"
    } >"$archive/manifest.json"
    image_tar -C "$archive" tools.json pause.json agnhost.json "$layer.tar" manifest.json
}

# Equal content gives equal bytes, so a digest says what is inside.
image_tar() { tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 "$@"; }

image_config() {
    printf '{"architecture":"%s","os":"linux","config":{"Env":["PATH=/usr/sbin:/usr/bin:/sbin:/bin"],%s},' "$(release_machine)" "$2"
    printf '"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' "$1"
}
