# gpuctl(1): completion for fish. gpuctl itself says what to offer; see completion.c.

function __gpuctl_offer
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] completion -- $words[2..-1] $current 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path $current
            case ':command*'
                set -l at (string split \t -- $line)[2]
                set -l command $words[(math $at + 2)..-1]
                complete -C (string join ' ' -- (string escape -- $command) $current)
            case '*'
                echo $line
        end
    end
end

complete -c gpuctl -f -a '(__gpuctl_offer)'
